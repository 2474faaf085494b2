//! The mutability matrix: every command from every source with every ownership.

use std::sync::Arc;

use ::tenure_lease::Holder;
use tenure_keeper::{Keeper, OsEntropy};

use super::*;
use crate::class::allowed;
use crate::lease::Ownership;
use crate::{Control, Options};

const OWNER: u32 = 1;
const OTHER: u32 = 2;

/// The counters of blocked commands, by source.
fn blocked(service: &ControlService) -> [u64; 4] {
    let counters = service.lock_state().blocked.json();
    InputSource::ALL.map(|source| {
        let name = match source {
            InputSource::Ws => "blockedWsCommands",
            InputSource::Rest => "blockedRestRequests",
            InputSource::Serial => "blockedLocalSerialInputs",
            InputSource::Encoder => "blockedLocalEncoderInputs",
        };
        counters[name].as_u64().unwrap()
    })
}

/// A requester with this ownership. Local inputs have no ownership of their own.
fn test_requester(source: InputSource, ownership: Ownership, token: &str) -> Requester {
    let mut requester = Requester { principal: "test".into(), ..Requester::local(source) };
    let owns = ownership == Ownership::Owner;
    match source {
        InputSource::Ws => requester.client = Some(if owns { OWNER } else { OTHER }),
        InputSource::Rest => requester.token = owns.then(|| token.to_owned()),
        InputSource::Serial | InputSource::Encoder => {}
    }
    requester
}

async fn check(service: &Arc<ControlService>, ownership: Ownership, token: &str) -> usize {
    let mut cells = 0;
    for command in COMMANDS.iter() {
        // Lease commands are never blocked, and would change the ownership under test.
        if command.class == Class::Control && command.name != "control.status" {
            continue;
        }
        for (i, source) in InputSource::ALL.into_iter().enumerate() {
            let mut expected = blocked(service);
            let before = service.lock_state().device.revision();
            let requester = test_requester(source, ownership, token);
            let outcome = perform(service, &requester, command, Map::new()).await;
            let open = allowed(command.class, source, ownership);
            let cell = format!("{} from {} as {ownership:?}: {outcome:?}", command.name, source.as_str());
            expected[i] += u64::from(!open);
            assert_eq!(blocked(service), expected, "{cell}");
            if !open {
                let code = outcome.unwrap_err().code;
                assert!(code == Code::CONTROL_LOCKED || code == Code::LEASE_REQUIRED, "{cell}");
                assert_eq!(service.lock_state().device.revision(), before, "{cell} changes nothing");
            }
            cells += 1;
        }
    }
    cells
}

#[tokio::test]
async fn the_matrix_holds_for_every_command_source_and_ownership() {
    let store: Arc<dyn ::tenure_lease::Store> = tenure_store::Store::open("memory:").await.unwrap().into();
    // A lease longer than the test, and a slow renderer.
    let options = Options { ttl_ms: 120_000, fps: 1, ..Options::default() };
    let control = Control::start(options, Keeper::new(store, Holder::unique("matrix", &OsEntropy).unwrap()));
    control.serving().await;
    let service = &control.service;
    let inactive = check(service, Ownership::Inactive, "").await;
    let owner = test_requester(InputSource::Ws, Ownership::Owner, "");
    let acquire = find("control.acquire").unwrap();
    let lease = perform(service, &owner, acquire, Map::new()).await.unwrap();
    let token = lease["leaseToken"].as_str().unwrap();
    let other = check(service, Ownership::Other, token).await;
    let owned = check(service, Ownership::Owner, token).await;
    assert_eq!((inactive, other, owned), (inactive, inactive, inactive), "every ownership covers every cell");
    assert_eq!(inactive, (COMMANDS.len() - 3) * InputSource::ALL.len());
    control.close().await;
}
