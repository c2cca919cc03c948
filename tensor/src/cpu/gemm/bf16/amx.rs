//! The kernel on AMX: 32 × 32 of C in four tiles, by TDPBF16PS, whose arithmetic defines the product.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

use super::path::{StripFn, Strips};

pub(super) const STRIPS: [StripFn; 1] = [strips];

/// Returns the reason if this process cannot use AMX with bf16. The permission is requested once, for all threads of the process.
pub(super) fn available() -> Result<(), &'static str> {
    static PERMISSION: OnceLock<Result<(), &'static str>> = OnceLock::new();
    *PERMISSION.get_or_init(request)
}

/// Checks the CPU and the operating system, and requests the permission.
fn request() -> Result<(), &'static str> {
    let has = |x: u32, bits: u32| x & bits == bits;
    if __cpuid(0).eax < 0x1D || !has(__cpuid_count(7, 0).edx, 1 << 24 | 1 << 22) {
        return Err(super::path::NO_TILES);
    }
    let palette = __cpuid_count(0x1D, 1);
    if palette.ebx != 8 << 16 | 64 || palette.ecx as u16 != 16 {
        return Err("the CPU's tiles are not eight of 16 × 64 bytes");
    }
    if !has(__cpuid(1).ecx, 1 << 27) {
        return Err("the operating system does not enable XSAVE");
    }
    let saved: u32;
    // SAFETY: OSXSAVE is set.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") saved, out("edx") _, options(nomem, nostack)) };
    if !has(saved, 3 << 17) {
        return Err("the operating system does not save AMX tiles");
    }
    permission()
}

/// Requests permission to use tiles: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
#[cfg(target_os = "linux")]
fn permission() -> Result<(), &'static str> {
    let status: isize;
    // SAFETY: this system call writes no memory of the process.
    unsafe {
        asm!("syscall", inlateout("rax") 158isize => status, in("rdi") 0x1023, in("rsi") 18, out("rcx") _, out("r11") _, options(nostack))
    };
    if status == 0 { Ok(()) } else { Err("the operating system refuses the permission (arch_prctl)") }
}

#[cfg(not(target_os = "linux"))]
fn permission() -> Result<(), &'static str> {
    Err("AMX is supported only on Linux")
}

/// The configuration of eight whole tiles of palette 1, for LDTILECFG.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

const EIGHT_TILES: Config = {
    let (mut bytes, mut rows, mut i) = ([0; 16], [0; 16], 0);
    while i < 8 {
        (bytes[i], rows[i], i) = (64, 16, i + 1);
    }
    Config { palette: 1, start_row: 0, reserved: [0; 14], bytes, rows }
};

/// Computes strips of 32 rows.
///
/// # Safety
/// [`available`] is `Ok`; the contract of [`StripFn`].
unsafe fn strips(it: Strips) {
    let Strips { strips, blocks, a, b, onto, onto_ld, c, ld, .. } = it;
    // SAFETY: by the caller's contract. The tiles are configured and released within the block.
    unsafe {
        asm!(
            "ldtilecfg [{config}]",
            "2:",
            "mov {b}, {panel}",
            "mov {k}, {blocks}",
            "tileloadd tmm0, [{onto} + {onto_ld}]",
            "tileloadd tmm1, [{onto} + {onto_ld} + 64]",
            "add {onto}, {onto_16}",
            "tileloadd tmm2, [{onto} + {onto_ld}]",
            "tileloadd tmm3, [{onto} + {onto_ld} + 64]",
            "add {onto}, {onto_16}",
            "3:",
            "tileloadd tmm4, [{a} + {line}]",
            "tileloadd tmm6, [{b} + {line}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {line} + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a} + {line} + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 2048",
            "add {b}, 2048",
            "dec {k}",
            "jnz 3b",
            "tilestored [{c} + {ld}], tmm0",
            "tilestored [{c} + {ld} + 64], tmm1",
            "add {c}, {ld_16}",
            "tilestored [{c} + {ld}], tmm2",
            "tilestored [{c} + {ld} + 64], tmm3",
            "add {c}, {ld_16}",
            "dec {strips}",
            "jnz 2b",
            "tilerelease",
            config = in(reg) &EIGHT_TILES,
            a = inout(reg) a => _,
            b = out(reg) _,
            panel = in(reg) b,
            c = inout(reg) c => _,
            onto = inout(reg) onto => _,
            onto_ld = in(reg) onto_ld,
            onto_16 = in(reg) 16 * onto_ld,
            ld = in(reg) ld,
            ld_16 = in(reg) 16 * ld,
            k = out(reg) _,
            blocks = in(reg) blocks,
            strips = inout(reg) strips => _,
            line = in(reg) 64usize,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
