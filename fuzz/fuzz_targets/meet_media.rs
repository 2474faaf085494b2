#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tenure_fuzz::run("meet_media", data));
