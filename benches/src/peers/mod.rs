//! What a user would use instead.

pub(crate) mod etcd;
pub(crate) mod group;
pub(crate) mod map;
pub(crate) mod recipe;
