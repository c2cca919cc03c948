#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gradus_fuzz::check("token_file", bytes));
