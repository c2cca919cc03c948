// Four rows of NAME, from position t on, by four columns from `column` on; zeros from position `end` on and past the width.
fn NAME_block(b: u32, h: u32, t: u32, end: u32, column: u32) -> mat4x4f {
    return mat4x4f(
        NAME_four(b, h, t, end, column),
        NAME_four(b, h, t + 1u, end, column),
        NAME_four(b, h, t + 2u, end, column),
        NAME_four(b, h, t + 3u, end, column),
    );
}

fn NAME_four(b: u32, h: u32, t: u32, end: u32, column: u32) -> vec4f {
    if t >= end || column >= p.width {
        return vec4f();
    }
    let at = p.NAME.x + b * p.NAME.y + h * p.NAME.z + t * p.NAME.w;
    READ
}

