//! The owner of a port.

use std::fs;

/// Whether a process of this group has a UDP socket on this port. The processes of a browser are a group, and each of its
/// pages has its own port.
pub fn has_udp_port(group: u32, port: u16) -> bool {
    let Some(inode) = inode(port) else { return false };
    let wanted = format!("socket:[{inode}]");
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let path = process.path();
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        // The fields after the name: state, parent, group.
        let of = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(2)?.parse().ok());
        of == Some(group) && has(&path.join("fd"), &wanted)
    })
}

fn has(descriptors: &std::path::Path, wanted: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(descriptors) else { return false };
    descriptors.flatten().any(|one| fs::read_link(one.path()).is_ok_and(|to| to.to_string_lossy() == wanted))
}

/// The inode of the socket on this port.
fn inode(port: u16) -> Option<String> {
    let wanted = format!(":{port:04X}");
    let tables =
        ["/proc/net/udp", "/proc/net/udp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(1)?.ends_with(&wanted).then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    })
}
