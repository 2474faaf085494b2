//! The mutability matrix: every command of the table, from every source, in every standing, at the one place where commands
//! are done.

use std::sync::Arc;

use ::lease::Holder;
use lease_keeper::{Keeper, OsEntropy};

use super::*;
use crate::class::allowed;
use crate::lease::Standing;
use crate::{Control, Options};

const OWNER: u32 = 1;
const OTHER: u32 = 2;

/// How often each source was blocked.
fn blocked(inner: &Inner) -> [u64; 4] {
    let counters = inner.look().blocked.json();
    Source::ALL.map(|source| {
        let name = match source {
            Source::Ws => "blockedWsCommands",
            Source::Rest => "blockedRestRequests",
            Source::Serial => "blockedLocalSerialInputs",
            Source::Encoder => "blockedLocalEncoderInputs",
        };
        counters[name].as_u64().unwrap()
    })
}

/// Whoever stands like this at this source. Hands on the device are the owner's own as much as anybody's.
fn hand(source: Source, standing: Standing, token: &str) -> Hand {
    let mut hand = Hand { principal: "somebody".into(), ..Hand::local(source) };
    let owns = standing == Standing::Owner;
    match source {
        Source::Ws => hand.client = Some(if owns { OWNER } else { OTHER }),
        Source::Rest => hand.token = owns.then(|| token.to_owned()),
        Source::Serial | Source::Encoder => {}
    }
    hand
}

async fn check(inner: &Arc<Inner>, standing: Standing, token: &str) -> usize {
    let mut cells = 0;
    for command in COMMANDS.iter() {
        // The lease's own commands are never blocked, and would end the standing that is being tested.
        if command.class == Class::Control && command.name != "control.status" {
            continue;
        }
        for (i, source) in Source::ALL.into_iter().enumerate() {
            let mut expected = blocked(inner);
            let before = inner.look().device.revision();
            let hand = hand(source, standing, token);
            let answer = perform(inner, &hand, command, Map::new()).await;
            let open = allowed(command.class, source, standing);
            let cell = format!("{} from {} as {standing:?}: {answer:?}", command.name, source.word());
            expected[i] += u64::from(!open);
            assert_eq!(blocked(inner), expected, "{cell}");
            if !open {
                let code = answer.unwrap_err().code;
                assert!(code == Code::CONTROL_LOCKED || code == Code::LEASE_REQUIRED, "{cell}");
                assert_eq!(inner.look().device.revision(), before, "{cell} changes nothing");
            }
            cells += 1;
        }
    }
    cells
}

#[tokio::test]
async fn the_matrix_holds_for_every_command_from_every_source_in_every_standing() {
    let store: Arc<dyn ::lease::Store> = lease_store::Store::open("memory:").await.unwrap().into();
    // A lease that the test does not outlive, and a renderer that is not in its way.
    let options = Options { ttl_ms: 120_000, fps: 1, ..Options::default() };
    let control = Control::start(options, Keeper::new(store, Holder::unique("matrix", &OsEntropy).unwrap()));
    control.serving().await;
    let inner = &control.inner;
    let inactive = check(inner, Standing::Inactive, "").await;
    let owner = hand(Source::Ws, Standing::Owner, "");
    let acquire = find("control.acquire").unwrap();
    let lease = perform(inner, &owner, acquire, Map::new()).await.unwrap();
    let token = lease["leaseToken"].as_str().unwrap();
    let other = check(inner, Standing::Other, token).await;
    let owned = check(inner, Standing::Owner, token).await;
    assert_eq!((inactive, other, owned), (inactive, inactive, inactive), "every cell in every standing");
    assert_eq!(inactive, (COMMANDS.len() - 3) * Source::ALL.len());
    control.close().await;
}
