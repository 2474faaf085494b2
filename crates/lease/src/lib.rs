//! The words and the rules of exclusive ownership: keys, holders, tokens, generations, fences, placement.
