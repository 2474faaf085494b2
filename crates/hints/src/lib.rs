//! Hints to the machine about memory: the only unsafe code of the workspace (ADR 7).
//!
//! A hint reads nothing into the program and changes no value. A machine that ignores all of them computes
//! the same, only slower; where a hint is not known, its function does nothing.

/// Asks the processor to fetch the cache line in which `value` begins, without waiting for it.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the processor's hint takes a pointer (ADR 7)")
)]
pub fn soon<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and gives the program nothing; and the address is of a live value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// How large a huge page is where it is smallest.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// Asks the kernel to back the memory of a vector by huge pages, as far as whole ones fit into it.
///
/// Best before the memory is used for the first time. Memory spread over small pages costs a walk through the
/// page tables at nearly every access once it is much larger than what the processor remembers of them.
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "the kernel's hint takes a pointer (ADR 7)"))]
pub fn huge<T>(memory: &mut Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        let start = memory.as_mut_ptr().cast::<u8>();
        let skip = start.align_offset(HUGE);
        let len = (memory.capacity() * size_of::<T>()).saturating_sub(skip) / HUGE * HUGE;
        if len > 0 {
            // SAFETY: the whole range belongs to the vector, and this advice leaves its bytes as they are. It
            // stays with the addresses, where it does whoever has them next no harm.
            let advised = unsafe {
                rustix::mm::madvise(start.wrapping_add(skip).cast(), len, rustix::mm::Advice::LinuxHugepage)
            };
            // A kernel without huge pages says so; nothing depends on them.
            let _ = advised;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Asks the allocator to keep its memory in at most `most` places. Best before there are threads.
///
/// By itself it has eight for each core, and what a thread gave back to one of them is of no use to the others and
/// seldom goes back to the system.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "the allocator is told through a function of C (ADR 7)")
)]
pub fn arenas(most: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let most = i32::try_from(most.max(1)).unwrap_or(i32::MAX);
        // SAFETY: it takes two numbers and sets a bound for arenas that are made later; those that are there stay.
        let taken = unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
        // An allocator that does not know the bound says so; nothing depends on it.
        let _ = taken;
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = most;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_changes_nothing() {
        let text = "text";
        soon(text);
        soon(&text.as_bytes()[0]);
        assert_eq!(text, "text");
    }

    #[test]
    fn a_bound_of_arenas_takes_nothing_away() {
        let before: Vec<u64> = (0..1_000).collect();
        arenas(0);
        arenas(2);
        let inside = std::thread::spawn(|| (0..1_000).collect::<Vec<u64>>());
        assert_eq!(inside.join().unwrap(), before);
    }

    #[test]
    fn a_vector_of_any_size_keeps_its_content() {
        for len in [0, 1, 1_000, 1 << 17, 1 << 20] {
            let mut memory: Vec<u64> = (0..len).collect();
            huge(&mut memory);
            memory.push(7);
            assert_eq!(memory.iter().sum::<u64>(), len * len.saturating_sub(1) / 2 + 7);
        }
        huge(&mut Vec::<u8>::new());
    }
}
