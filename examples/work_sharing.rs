//! Three nodes share nine jobs: a roster lists live nodes, a placement assigns the jobs, leases decide.
#![expect(clippy::print_stdout, reason = "examples print what they do")]

use anyhow::ensure;
use tenure_keeper::{Guard, Keeper, Roster, Terms};
use tenure_lease::{Holder, Key, Meta, Placement, Prefix, Ttl};
use tenure_store::Store;

struct Node {
    keeper: Keeper,
    roster: Roster,
    held: Vec<Guard>,
}

impl Node {
    async fn join(store: &Store, name: &str) -> anyhow::Result<Self> {
        let keeper = Keeper::new(store.clone(), Holder::new(name)?);
        let roster = Roster::join(&keeper, Prefix::new("node/")?, name, Meta::default(), terms()?).await?;
        Ok(Self { keeper, roster, held: Vec::new() })
    }

    /// Acquires the jobs that the placement assigns to this node.
    async fn acquire_share(&mut self, jobs: &[String]) -> anyhow::Result<()> {
        let live: Vec<String> = self.roster.live().await?.into_iter().map(|member| member.name).collect();
        let nodes: Vec<&str> = live.iter().map(String::as_str).collect();
        let keys: Vec<&str> = jobs.iter().map(String::as_str).collect();
        for (job, node) in jobs.iter().zip(Placement::Balanced.assign(&keys, &nodes)) {
            if nodes[node] == self.keeper.holder().as_str() {
                self.held.push(self.keeper.try_acquire(Key::new(job)?, terms()?).await?);
            }
        }
        Ok(())
    }
}

fn terms() -> anyhow::Result<Terms> {
    Ok(Terms::new(Ttl::from_secs(10)?))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = examples::store().await?;
    let jobs: Vec<String> = (1..=9).map(|n| format!("job/{n}")).collect();
    let mut nodes = Vec::new();
    for name in ["anna", "bert", "cleo"] {
        nodes.push(Node::join(&store, name).await?);
    }
    for node in &mut nodes {
        node.acquire_share(&jobs).await?;
        let mine: Vec<String> = node.held.iter().map(|guard| guard.key().to_string()).collect();
        println!("{} does {}", node.keeper.holder(), mine.join(", "));
        ensure!(mine.len() == 3, "nine jobs on three nodes are three each");
    }
    for node in nodes {
        for guard in node.held {
            guard.release().await?;
        }
        node.roster.leave().await;
    }
    Ok(())
}
