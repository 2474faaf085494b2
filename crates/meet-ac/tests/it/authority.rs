//! Tokens, keys that turn, keys that are kept.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use lease::{Clock as _, Key, Store};
use lease_keeper::OsEntropy;
use meet_ac::{Authority, Error, Invitation, Seal, Seat, StoreVault, Vault};
use meet_wire::jwt::{
    GuestClaims, JwtError, MeetingClaims, ParticipantType, Role, ServiceClaims, ServiceType, UserClaims,
};
use tempfile::tempdir;

use crate::{Hand, clients, credentials, in_folder};

const DAY: u64 = 86_400;

fn invitation(previous: Option<String>) -> Invitation {
    Invitation { meeting_id: "abc".to_owned(), display_name: "Gus".to_owned(), previous }
}

#[tokio::test]
async fn every_kind_of_token_says_who_and_for_how_long() {
    let (dir, clock) = (tempdir().unwrap(), Hand::new());
    let authority = in_folder(dir.path(), clock.clone()).await.unwrap();
    let (checker, now) = (authority.checker(), clock.wall());
    let (token, life) = authority.service(&credentials(), None).unwrap();
    let service: ServiceClaims = checker.check(&token, now).unwrap();
    assert_eq!((service.sub.as_str(), service.service_type), ("mc-1", ServiceType::MeetingController));
    assert!(service.allows("service.write.gc") && service.allows("service.write.mh"));
    assert_eq!((service.exp - service.iat, life.as_secs()), (3_600, 3_600));
    let user: UserClaims = checker.check(&authority.user("u_1", "org", "", &[]).unwrap(), now).unwrap();
    assert_eq!((user.sub.as_str(), user.exp - user.iat), ("u_1", 3_600));
    let seat = Seat {
        user: "u_1".to_owned(),
        meeting_id: "abc".to_owned(),
        home_org_id: Some("elsewhere".to_owned()),
        meeting_org_id: "org".to_owned(),
        host: true,
    };
    let token = authority.seat(&seat).unwrap();
    let claims: MeetingClaims = checker.check(&token, now).unwrap();
    assert_eq!((claims.role, claims.participant_type), (Role::Host, ParticipantType::External));
    assert_eq!((claims.meeting_id.as_str(), claims.exp - claims.iat), ("abc", 900));
    assert_eq!(checker.check::<ServiceClaims>(&token, now), Err(JwtError::Kind));
    assert!(matches!(authority.user("", "org", "", &[]), Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_service_gets_no_more_than_its_scopes_and_nothing_with_a_wrong_secret() {
    let (dir, clock) = (tempdir().unwrap(), Hand::new());
    let authority = in_folder(dir.path(), clock.clone()).await.unwrap();
    let (token, _) = authority.service(&credentials(), Some("service.write.mh")).unwrap();
    let claims: ServiceClaims = authority.checker().check(&token, clock.wall()).unwrap();
    assert_eq!(claims.scope, "service.write.mh");
    assert_eq!(authority.service(&credentials(), Some("service.write.mc")), Err(Error::InvalidScope));
    for (id, secret) in [("mc-1", "wrong"), ("mc-2", "hunter2-mc"), ("mc-1", ""), ("", "")] {
        let wrong = meet_ac::Credentials { client_id: id.to_owned(), client_secret: secret.to_owned() };
        assert_eq!(authority.service(&wrong, None), Err(Error::InvalidClient));
    }
}

#[tokio::test]
async fn a_guest_stays_the_same_guest_for_an_hour_after_its_token_ended() {
    let (dir, clock) = (tempdir().unwrap(), Hand::new());
    let authority = in_folder(dir.path(), clock.clone()).await.unwrap();
    let who = |token: &str| authority.checker().check::<GuestClaims>(token, clock.wall()).unwrap().sub;
    let first = authority.guest(&invitation(None)).unwrap();
    let sub = who(&first);
    clock.pass(900 + 3_599);
    let second = authority.guest(&invitation(Some(first.clone()))).unwrap();
    assert_eq!(who(&second), sub);
    clock.pass(1);
    assert_ne!(who(&authority.guest(&invitation(Some(first.clone()))).unwrap()), sub, "too late");
    let elsewhere = Invitation { meeting_id: "abd".to_owned(), ..invitation(Some(second)) };
    assert_ne!(who(&authority.guest(&elsewhere).unwrap()), sub, "another meeting");
    assert_ne!(who(&authority.guest(&invitation(Some("a.b.c".to_owned()))).unwrap()), sub);
    for name in ["", "x", &"x".repeat(101)] {
        let bad = Invitation { display_name: name.to_owned(), ..invitation(None) };
        assert!(matches!(authority.guest(&bad), Err(Error::Invalid(_))), "{name}");
    }
}

#[tokio::test]
async fn tokens_outlive_the_turn_of_the_keys_and_a_restart() {
    let (dir, clock) = (tempdir().unwrap(), Hand::new());
    let authority = in_folder(dir.path(), clock.clone()).await.unwrap();
    clock.pass(7 * DAY - 60);
    let before = authority.user("u_1", "org", "", &[]).unwrap();
    clock.pass(60);
    authority.turn().await.unwrap();
    assert_eq!(authority.published().keys.len(), 2);
    clock.pass(600);
    let after = authority.user("u_1", "org", "", &[]).unwrap();
    assert_ne!(before.split('.').next(), after.split('.').next(), "signed by another key");
    let restarted = in_folder(dir.path(), clock.clone()).await.unwrap();
    assert_eq!(restarted.published(), authority.published());
    for token in [before, after] {
        assert!(restarted.checker().check::<UserClaims>(&token, clock.wall()).is_ok());
    }
}

#[tokio::test]
async fn the_file_of_keys_is_its_owners_alone_or_it_is_not_taken() {
    let (dir, clock) = (tempdir().unwrap(), Hand::new());
    in_folder(dir.path(), clock.clone()).await.unwrap();
    let file = dir.path().join("meet-keys");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = in_folder(dir.path(), clock.clone()).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("meet-keys") && refused.to_string().contains("others"), "{refused}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, b"{\"keys\":[{\"seed\":\"AAAA\",\"made_s\":1}]}").unwrap();
    assert!(in_folder(dir.path(), clock).await.is_err(), "half a key is no key, and none is made over it");
}

async fn in_store(store: &Arc<dyn Store>, secret: u8, clock: &Arc<Hand>) -> Result<Authority, Error> {
    let vault = Vault::Store(StoreVault::new(store.clone(), Seal::new(&[secret; 32]).unwrap()));
    Authority::open(vault, clients(), clock.clone(), Arc::new(OsEntropy)).await
}

#[tokio::test]
async fn authorities_on_one_store_share_sealed_keys_and_turn_them_once() {
    let (store, clock) = (Arc::new(lease_store::Local::memory()) as Arc<dyn Store>, Hand::new());
    let (one, two) = tokio::join!(in_store(&store, 7, &clock), in_store(&store, 7, &clock));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.published(), two.published(), "whoever was second took what was there");
    let token = one.user("u_1", "org", "", &[]).unwrap();
    assert!(two.checker().check::<UserClaims>(&token, clock.wall()).is_ok());
    clock.pass(7 * DAY);
    one.turn().await.unwrap();
    two.turn().await.unwrap();
    assert_eq!((one.published().keys.len(), one.published()), (2, two.published()));
    let kept = store.get(&Key::new("system:meet:keys").unwrap()).await.unwrap().unwrap();
    let text = String::from_utf8(kept.value.to_vec()).unwrap();
    assert!(!text.contains("seed") && !text.contains("keys"), "it is sealed");
    let refused = in_store(&store, 8, &clock).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("TENURE_SEAL_KEY"), "{refused}");
}
