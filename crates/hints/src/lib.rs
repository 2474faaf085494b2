//! Memory hints: the only unsafe code of the workspace (ADR 7).
//!
//! A hint changes no value. Where all hints are ignored, the results are the same and only slower; where a hint is not
//! supported, its function does nothing.

/// Prefetches the cache line in which `value` begins.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the processor's hint takes a pointer (ADR 7)")
)]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and has no effect on values; the address is that of a live value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// The size of the smallest huge page.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// Advises the kernel to back the memory of a vector with huge pages, as far as whole pages fit.
///
/// Call it before the memory is first used. With small pages, memory much larger than the TLB covers costs a page-table
/// walk at nearly every access.
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "the kernel's hint takes a pointer (ADR 7)"))]
pub fn advise_huge_pages<T>(memory: &mut Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        let start = memory.as_mut_ptr().cast::<u8>();
        let skip = start.align_offset(HUGE);
        let len = (memory.capacity() * size_of::<T>()).saturating_sub(skip) / HUGE * HUGE;
        if len > 0 {
            // SAFETY: the whole range belongs to the vector, and the advice does not change its bytes. It outlives the
            // vector, which is harmless for later users of the addresses.
            let advised = unsafe {
                rustix::mm::madvise(start.wrapping_add(skip).cast(), len, rustix::mm::Advice::LinuxHugepage)
            };
            // A kernel without huge pages returns an error; nothing depends on them.
            let _ = advised;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Limits the arenas of glibc's allocator to `max`. Call it before threads are started.
///
/// By default there are eight per core, and memory freed in one arena is not used by the others and is seldom returned to
/// the system.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "mallopt is a C function (ADR 7)")
)]
pub fn limit_malloc_arenas(max: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let max = i32::try_from(max.max(1)).unwrap_or(i32::MAX);
        // SAFETY: it takes two numbers and bounds the arenas that are created later.
        let accepted = unsafe { libc::mallopt(libc::M_ARENA_MAX, max) };
        // An allocator that does not support the limit returns an error; nothing depends on it.
        let _ = accepted;
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = max;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefetch_changes_nothing() {
        let text = "text";
        prefetch(text);
        prefetch(&text.as_bytes()[0]);
        assert_eq!(text, "text");
    }

    #[test]
    fn limiting_arenas_keeps_allocations() {
        let before: Vec<u64> = (0..1_000).collect();
        limit_malloc_arenas(0);
        limit_malloc_arenas(2);
        let inside = std::thread::spawn(|| (0..1_000).collect::<Vec<u64>>());
        assert_eq!(inside.join().unwrap(), before);
    }

    #[test]
    fn a_vector_of_any_size_keeps_its_content() {
        for len in [0, 1, 1_000, 1 << 17, 1 << 20] {
            let mut memory: Vec<u64> = (0..len).collect();
            advise_huge_pages(&mut memory);
            memory.push(7);
            assert_eq!(memory.iter().sum::<u64>(), len * len.saturating_sub(1) / 2 + 7);
        }
        advise_huge_pages(&mut Vec::<u8>::new());
    }
}
