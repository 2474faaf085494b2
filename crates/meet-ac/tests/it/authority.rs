//! Tokens, key rotation and key storage.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use tempfile::tempdir;
use tenure_keeper::OsEntropy;
use tenure_lease::{Clock as _, Key, Store};
use tenure_meet_ac::{Authority, Error, Seal, StoreVault, Vault};
use tenure_meet_wire::jwt::{
    GuestClaims, JwtError, MeetingClaims, ParticipantType, Role, ServiceClaims, ServiceType, UserClaims,
};
use tenure_meet_wire::jwt::{GuestTokenRequest, MemberTokenRequest};

use crate::{Hand, clients, credentials, in_folder};

const DAY: u64 = 86_400;

fn request(previous: Option<String>) -> GuestTokenRequest {
    GuestTokenRequest { meeting_id: "abc".to_owned(), display_name: "Gus".to_owned(), previous }
}

#[tokio::test]
async fn every_kind_of_token_carries_its_subject_and_lifetime() {
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
    let member = MemberTokenRequest {
        user: "u_1".to_owned(),
        meeting_id: "abc".to_owned(),
        home_org_id: Some("elsewhere".to_owned()),
        meeting_org_id: "org".to_owned(),
        host: true,
    };
    let token = authority.sign_member(&member).unwrap();
    let claims: MeetingClaims = checker.check(&token, now).unwrap();
    assert_eq!((claims.role, claims.participant_type), (Role::Host, ParticipantType::External));
    assert_eq!((claims.meeting_id.as_str(), claims.exp - claims.iat), ("abc", 900));
    assert_eq!(checker.check::<ServiceClaims>(&token, now), Err(JwtError::Kind));
    assert!(matches!(authority.user("", "org", "", &[]), Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_service_gets_only_its_scopes_and_only_with_its_secret() {
    let (dir, clock) = (tempdir().unwrap(), Hand::new());
    let authority = in_folder(dir.path(), clock.clone()).await.unwrap();
    let (token, _) = authority.service(&credentials(), Some("service.write.mh")).unwrap();
    let claims: ServiceClaims = authority.checker().check(&token, clock.wall()).unwrap();
    assert_eq!(claims.scope, "service.write.mh");
    assert_eq!(authority.service(&credentials(), Some("service.write.mc")), Err(Error::InvalidScope));
    for (id, secret) in [("mc-1", "wrong"), ("mc-2", "hunter2-mc"), ("mc-1", ""), ("", "")] {
        let wrong =
            tenure_meet_ac::Credentials { client_id: id.to_owned(), client_secret: secret.to_owned() };
        assert_eq!(authority.service(&wrong, None), Err(Error::InvalidClient));
    }
}

#[tokio::test]
async fn a_guest_keeps_its_id_for_an_hour_after_its_token_expired() {
    let (dir, clock) = (tempdir().unwrap(), Hand::new());
    let authority = in_folder(dir.path(), clock.clone()).await.unwrap();
    let subject = |token: &str| authority.checker().check::<GuestClaims>(token, clock.wall()).unwrap().sub;
    let first = authority.sign_guest(&request(None)).unwrap();
    let sub = subject(&first);
    clock.pass(900 + 3_599);
    let second = authority.sign_guest(&request(Some(first.clone()))).unwrap();
    assert_eq!(subject(&second), sub);
    clock.pass(1);
    assert_ne!(subject(&authority.sign_guest(&request(Some(first.clone()))).unwrap()), sub, "too late");
    let elsewhere = GuestTokenRequest { meeting_id: "abd".to_owned(), ..request(Some(second)) };
    assert_ne!(subject(&authority.sign_guest(&elsewhere).unwrap()), sub, "another meeting");
    assert_ne!(subject(&authority.sign_guest(&request(Some("a.b.c".to_owned()))).unwrap()), sub);
    for name in ["", "x", &"x".repeat(101)] {
        let bad = GuestTokenRequest { display_name: name.to_owned(), ..request(None) };
        assert!(matches!(authority.sign_guest(&bad), Err(Error::Invalid(_))), "{name}");
    }
}

#[tokio::test]
async fn tokens_survive_a_key_rotation_and_a_restart() {
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
async fn a_key_file_that_others_can_access_is_rejected() {
    let (dir, clock) = (tempdir().unwrap(), Hand::new());
    in_folder(dir.path(), clock.clone()).await.unwrap();
    let file = dir.path().join("meet-keys");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = in_folder(dir.path(), clock.clone()).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("meet-keys") && refused.to_string().contains("others"), "{refused}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, b"{\"keys\":[{\"seed\":\"AAAA\",\"made_s\":1}]}").unwrap();
    assert!(in_folder(dir.path(), clock).await.is_err(), "a truncated file is rejected and not overwritten");
}

async fn in_store(store: &Arc<dyn Store>, secret: u8, clock: &Arc<Hand>) -> Result<Authority, Error> {
    let vault = Vault::Store(StoreVault::new(store.clone(), Seal::new(&[secret; 32]).unwrap()));
    Authority::open(vault, clients(), clock.clone(), Arc::new(OsEntropy)).await
}

#[tokio::test]
async fn authorities_on_one_store_share_sealed_keys_and_rotate_them_once() {
    let (store, clock) = (Arc::new(tenure_store::Local::memory()) as Arc<dyn Store>, Hand::new());
    let (one, two) = tokio::join!(in_store(&store, 7, &clock), in_store(&store, 7, &clock));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.published(), two.published(), "the second authority uses the stored keys");
    let token = one.user("u_1", "org", "", &[]).unwrap();
    assert!(two.checker().check::<UserClaims>(&token, clock.wall()).is_ok());
    clock.pass(7 * DAY);
    one.turn().await.unwrap();
    two.turn().await.unwrap();
    assert_eq!((one.published().keys.len(), one.published()), (2, two.published()));
    let kept = store.get(&Key::new("system:meet:keys").unwrap()).await.unwrap().unwrap();
    let text = String::from_utf8(kept.value.to_vec()).unwrap();
    assert!(!text.contains("seed") && !text.contains("keys"), "the record is sealed");
    let refused = in_store(&store, 8, &clock).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("TENURE_SEAL_KEY"), "{refused}");
}
