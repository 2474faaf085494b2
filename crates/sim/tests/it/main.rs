//! Real processes and the judge.

mod chaos;
