//! Access rules: which role may call which service.

use tenure_meet_wire::jwt::ServiceType;

use crate::ServiceRole;

/// The access rule of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    /// The service name, without its package.
    pub(crate) service: &'static str,
    /// The role that serves it.
    pub(crate) offered_by: ServiceRole,
    /// The only service type that may call it.
    pub(crate) caller: ServiceType,
    /// A second service type, for the called method only.
    also: Option<ServiceType>,
}

impl Rule {
    /// Whether a service type may make the call.
    pub(crate) fn admits(self, caller: ServiceType) -> bool {
        self.caller == caller || self.also == Some(caller)
    }
}

/// Methods that another service type may call as well: a controller probes another one when GC asks it to.
const ALSO: [(&str, &str, ServiceType); 1] =
    [("MeetingControllerService", "Probe", ServiceType::MeetingController)];

const PACKAGE: &str = "tenure.meet.internal.v1.";

const RULES: [Rule; 6] = [
    rule("GlobalControllerService", ServiceRole::Gc, ServiceType::MeetingController),
    rule("MediaHandlerRegistryService", ServiceRole::Gc, ServiceType::MediaHandler),
    rule("MeetingControllerService", ServiceRole::Mc, ServiceType::GlobalController),
    rule("MeetingMigrationService", ServiceRole::Mc, ServiceType::MeetingController),
    rule("MediaCoordinationService", ServiceRole::Mc, ServiceType::MediaHandler),
    rule("MediaHandlerService", ServiceRole::Mh, ServiceType::MeetingController),
];

const fn rule(service: &'static str, offered_by: ServiceRole, caller: ServiceType) -> Rule {
    Rule { service, offered_by, caller, also: None }
}

/// Returns the rule for a call path, `/package.Service/Method`. A service without a rule is not exposed.
pub(crate) fn rule_of(path: &str) -> Option<Rule> {
    let (service, method) = path.strip_prefix('/')?.strip_prefix(PACKAGE)?.split_once('/')?;
    let rule = RULES.into_iter().find(|rule| rule.service == service)?;
    let also = ALSO.iter().find(|(of, name, _)| (*of, *name) == (service, method));
    Some(Rule { also: also.map(|(_, _, caller)| *caller), ..rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_services_of_the_protocol_have_a_rule() {
        let proto = include_str!("../../../proto/tenure/meet/internal/v1/internal.proto");
        let named = proto.lines().filter_map(|line| line.strip_prefix("service ")?.strip_suffix(" {"));
        let mut services: Vec<&str> = named.collect();
        services.sort_unstable();
        let mut ruled = RULES.map(|rule| rule.service);
        ruled.sort_unstable();
        assert_eq!(services, ruled);
        let path = "/tenure.meet.internal.v1.MediaHandlerService/EnforceMute";
        assert_eq!(rule_of(path).unwrap().caller, ServiceType::MeetingController);
        let may_call = |method: &str, caller| {
            let path = format!("/tenure.meet.internal.v1.MeetingControllerService/{method}");
            rule_of(&path).unwrap().admits(caller)
        };
        let (gc, mc) = (ServiceType::GlobalController, ServiceType::MeetingController);
        assert!(may_call("Probe", gc) && may_call("Probe", mc));
        assert!(may_call("AssignMeeting", gc) && !may_call("AssignMeeting", mc));
        for bad in ["", "/", "/tenure.meet.internal.v1.Unknown/X", "/tenure.lease.v1.Leases/Acquire", "x"] {
            assert_eq!(rule_of(bad), None, "{bad}");
        }
    }
}
