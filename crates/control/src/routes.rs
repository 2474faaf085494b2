//! The REST routes. Each route runs a command and has the class of that command.

use http::Method;

use crate::class::Class;
use crate::command::{self, Command};
use crate::gate::RouteClasses;

/// A route and its command. Path parameters are fields of the command.
pub struct Route {
    /// The method.
    pub method: Method,
    /// The router pattern.
    pub path: &'static str,
    /// The command.
    pub command: &'static str,
}

const fn get(path: &'static str, command: &'static str) -> Route {
    Route { method: Method::GET, path, command }
}

const fn post(path: &'static str, command: &'static str) -> Route {
    Route { method: Method::POST, path, command }
}

const fn put(path: &'static str, command: &'static str) -> Route {
    Route { method: Method::PUT, path, command }
}

const fn patch(path: &'static str, command: &'static str) -> Route {
    Route { method: Method::PATCH, path, command }
}

const fn delete(path: &'static str, command: &'static str) -> Route {
    Route { method: Method::DELETE, path, command }
}

/// Every route except `/ws`.
pub const ROUTES: &[Route] = &[
    get("/api/v1/control/status", "control.status"),
    get("/api/v1/device/status", "device.getStatus"),
    get("/api/v1/device/info", "device.getInfo"),
    get("/api/v1/device/state", "device.getState"),
    get("/api/v1/device/capabilities", "sys.capabilities"),
    post("/api/v1/device/power", "setPower"),
    get("/api/v1/device/ota-token", "ota.status"),
    post("/api/v1/device/ota-token", "ota.begin"),
    get("/api/v1/effects", "effects.list"),
    get("/api/v1/effects/current", "effects.getCurrent"),
    put("/api/v1/effects/current", "effects.setCurrent"),
    post("/api/v1/effects/set", "setEffect"),
    post("/api/v1/effects/next", "nextEffect"),
    post("/api/v1/effects/prev", "prevEffect"),
    get("/api/v1/effects/parameters", "effects.parameters.get"),
    post("/api/v1/effects/parameters", "effects.parameters.set"),
    patch("/api/v1/effects/parameters", "effects.parameters.set"),
    get("/api/v1/palettes", "palettes.list"),
    get("/api/v1/palettes/{paletteId}", "palettes.get"),
    post("/api/v1/palettes/set", "palettes.set"),
    get("/api/v1/parameters", "parameters.get"),
    post("/api/v1/parameters", "parameters.set"),
    patch("/api/v1/parameters", "parameters.set"),
    get("/api/v1/transitions", "transitions.list"),
    get("/api/v1/transitions/config", "transition.getConfig"),
    post("/api/v1/transitions/config", "transition.config"),
    post("/api/v1/transitions/trigger", "transitions.trigger"),
    get("/api/v1/effect-presets", "effectPresets.list"),
    post("/api/v1/effect-presets", "effectPresets.saveCurrent"),
    get("/api/v1/effect-presets/{id}", "effectPresets.get"),
    delete("/api/v1/effect-presets/{id}", "effectPresets.delete"),
    post("/api/v1/effect-presets/{id}/load", "effectPresets.load"),
    get("/api/v1/presets", "effectPresets.list"),
    post("/api/v1/presets", "effectPresets.saveCurrent"),
    get("/api/v1/presets/{id}", "effectPresets.get"),
    delete("/api/v1/presets/{id}", "effectPresets.delete"),
    post("/api/v1/presets/{id}/load", "effectPresets.load"),
    get("/api/v1/shows/status", "show.status"),
    post("/api/v1/shows/play", "show.play"),
    post("/api/v1/shows/pause", "show.pause"),
    post("/api/v1/shows/resume", "show.resume"),
    post("/api/v1/shows/stop", "show.stop"),
    post("/api/v1/shows/seek", "show.seek"),
    get("/api/v1/settings", "settings.get"),
    post("/api/v1/settings", "settings.set"),
    patch("/api/v1/settings", "settings.set"),
    get("/api/v1/colorCorrection", "colorCorrection.getConfig"),
    post("/api/v1/colorCorrection", "colorCorrection.setConfig"),
    get("/api/v1/render-stream/status", "render.stream.status"),
    post("/api/v1/batch", "batch"),
    get("/api/v1/auth/status", "auth.status"),
    post("/api/v1/auth/rotate", "auth.rotate"),
    get("/api/v1/firmware/status", "ota.status"),
    get("/api/v1/firmware/check", "ota.check"),
    post("/api/v1/firmware/update", "ota.update"),
    post("/update", "ota.update"),
];

/// Path prefixes whose unknown paths return this API's error envelope.
pub(crate) const AREAS: &[&str] = &[
    "control",
    "device",
    "effects",
    "palettes",
    "parameters",
    "transitions",
    "effect-presets",
    "presets",
    "shows",
    "settings",
    "colorCorrection",
    "render-stream",
    "batch",
    "auth",
    "firmware",
];

/// The pattern of all unknown paths of an area. A path parameter directly below the area matches the first segment.
pub(crate) fn catch_all(area: &str) -> String {
    let base = format!("/api/v1/{area}");
    let parameter = ROUTES.iter().find_map(|route| {
        let part = route.path.strip_prefix(&base)?.strip_prefix("/{")?.split('}').next()?;
        Some(format!("{base}/{{{part}}}/{{*rest}}"))
    });
    parameter.unwrap_or_else(|| format!("{base}/{{*rest}}"))
}

impl Route {
    /// The command of the route. A test ensures that it exists.
    pub(crate) fn command(&self) -> Option<&'static Command> {
        command::find(self.command)
    }

    /// The class of the route, which is that of its command.
    pub fn class(&self) -> Class {
        command::class_of(self.command)
    }
}

/// The class table of the routes.
pub fn classes() -> RouteClasses {
    let table = RouteClasses::new().route(Method::GET, "/ws", Class::Read);
    // Unknown paths below firmware and auth are exempt like the known ones.
    let table = ["firmware", "auth"].iter().fold(table, |table, area| {
        let methods = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        methods.into_iter().fold(table, |table, method| table.route(method, &catch_all(area), Class::Exempt))
    });
    // A GET of an unknown path changes nothing.
    let table = AREAS.iter().fold(table, |table, area| {
        table.route(Method::GET, &catch_all(area), Class::Read).route(
            Method::GET,
            &format!("/api/v1/{area}"),
            Class::Read,
        )
    });
    ROUTES.iter().fold(table, |table, route| table.route(route.method.clone(), route.path, route.class()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_a_command_and_its_class() {
        let classes = classes();
        for route in ROUTES {
            assert!(route.command().is_some(), "{} {}", route.path, route.command);
            assert_eq!(classes.class(&route.method, route.path), route.class(), "{}", route.path);
            if route.method == Method::GET {
                assert_ne!(route.class(), Class::Mutate, "GET must not mutate: {}", route.path);
            } else {
                assert!(matches!(route.class(), Class::Mutate | Class::Exempt), "{}", route.path);
            }
        }
    }

    #[test]
    fn no_route_can_grant_or_extend_the_lease() {
        let control: Vec<_> = ROUTES.iter().filter(|route| route.class() == Class::Control).collect();
        assert!(control.iter().all(|route| route.command == "control.status" && route.method == Method::GET));
    }

    #[test]
    fn the_areas_cover_every_route() {
        for route in ROUTES {
            let area = route.path.strip_prefix("/api/v1/").and_then(|path| path.split('/').next());
            assert!(
                route.path == "/update" || area.is_some_and(|area| AREAS.contains(&area)),
                "{}",
                route.path
            );
        }
    }
}
