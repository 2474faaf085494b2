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
