#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gradus_fuzz::check("trainer_state", bytes));
