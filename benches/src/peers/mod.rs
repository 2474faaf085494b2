//! The alternatives to Tenure, and `tenure up` as a process.

pub(crate) mod etcd;
mod etcd_keep;
mod etcd_lock;
pub(crate) mod group;
pub(crate) mod map;
pub(crate) mod recipe;
pub(crate) mod tenure;
pub(crate) mod zookeeper;
