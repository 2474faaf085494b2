//! Who may call what.

use meet_wire::jwt::ServiceType;

use crate::Part;

/// What a service asks of its callers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    /// The service, without its package.
    pub(crate) service: &'static str,
    /// Who offers it.
    pub(crate) offered_by: Part,
    /// Who may call it.
    pub(crate) caller: ServiceType,
}

const PACKAGE: &str = "tenure.meet.internal.v1.";

const RULES: [Rule; 6] = [
    rule("GlobalControllerService", Part::Gc, ServiceType::MeetingController),
    rule("MediaHandlerRegistryService", Part::Gc, ServiceType::MediaHandler),
    rule("MeetingControllerService", Part::Mc, ServiceType::GlobalController),
    rule("MeetingMigrationService", Part::Mc, ServiceType::MeetingController),
    rule("MediaCoordinationService", Part::Mc, ServiceType::MediaHandler),
    rule("MediaHandlerService", Part::Mh, ServiceType::MeetingController),
];

const fn rule(service: &'static str, offered_by: Part, caller: ServiceType) -> Rule {
    Rule { service, offered_by, caller }
}

/// The rule for the path of a call, `/package.Service/Method`. What has none is not offered.
pub(crate) fn rule_of(path: &str) -> Option<Rule> {
    let (service, _method) = path.strip_prefix('/')?.strip_prefix(PACKAGE)?.split_once('/')?;
    RULES.into_iter().find(|rule| rule.service == service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_of_the_protocol_has_a_rule_and_nothing_else_has() {
        let proto = include_str!("../../../proto/tenure/meet/internal/v1/internal.proto");
        let named = proto.lines().filter_map(|line| line.strip_prefix("service ")?.strip_suffix(" {"));
        let mut services: Vec<&str> = named.collect();
        services.sort_unstable();
        let mut ruled = RULES.map(|rule| rule.service);
        ruled.sort_unstable();
        assert_eq!(services, ruled);
        let path = "/tenure.meet.internal.v1.MediaHandlerService/EnforceMute";
        assert_eq!(rule_of(path).unwrap().caller, ServiceType::MeetingController);
        for bad in ["", "/", "/tenure.meet.internal.v1.Nobody/X", "/tenure.lease.v1.Leases/Acquire", "x"] {
            assert_eq!(rule_of(bad), None, "{bad}");
        }
    }
}
