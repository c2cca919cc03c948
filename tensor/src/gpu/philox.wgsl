// Philox 4×32-10, the counter-based generator of rng.rs.

// The high word of a·b, from the products of their halves.
fn high(a: u32, b: u32) -> u32 {
    let low = (a & 0xFFFFu) * (b & 0xFFFFu);
    let cross = (a >> 16u) * (b & 0xFFFFu) + (low >> 16u);
    let other = (a & 0xFFFFu) * (b >> 16u) + (cross & 0xFFFFu);
    return (a >> 16u) * (b >> 16u) + (cross >> 16u) + (other >> 16u);
}

// A block of four random words from a counter and a key, as in rng.rs.
fn philox(counter: vec4u, first_key: vec2u) -> vec4u {
    var c = counter;
    var key = first_key;
    for (var round = 0u; round < 10u; round++) {
        let lows = vec2u(0xD2511F53u * c.x, 0xCD9E8D57u * c.z);
        c = vec4u(high(0xCD9E8D57u, c.z) ^ c.y ^ key.x, lows.y, high(0xD2511F53u, c.x) ^ c.w ^ key.y, lows.x);
        key += vec2u(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

