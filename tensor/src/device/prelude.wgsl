// What every shader begins with.
//
// A product that reaches a sum is written as fma, and a logarithm in a sum as log2(x)·LN_2: a driver may fuse a·b + c or not, and
// may choose otherwise when the text around it changes, as for buffers in windows.

const LN_2 = 0.6931471805599453;

// The number of a workgroup, which may be folded over two axes.
fn group_number(group: vec3u, groups: vec3u) -> u32 {
    return group.y * groups.x + group.x;
}

// Is x anything but NaN? By its bits, as below.
fn is_number(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7FFFFFFFu) <= 0x7F800000u;
}

// Is x finite? By its bits: a device need not keep NaN and ∞ in arithmetic.
fn is_finite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7F800000u) != 0x7F800000u;
}
