//! API tokens in the settings. No message shows a token.

use toml::Value;

use crate::auth::ApiToken;
use crate::scope::{Scope, Scopes};

/// The most tokens.
const MAX_TOKENS: usize = 1_024;

/// Parses a value of kind `Tokens`.
pub(super) fn parse(value: &Value) -> Result<Vec<ApiToken>, String> {
    let tokens = match value {
        Value::String(text) => from_text(text)?,
        Value::Array(tables) => {
            let tokens = tables.iter().enumerate().map(|(index, table)| {
                from_table(table).map_err(|error| format!("token {}: {error}", index + 1))
            });
            tokens.collect::<Result<_, _>>()?
        }
        _ => return Err("must be a string or a list of tables".into()),
    };
    if tokens.is_empty() || tokens.len() > MAX_TOKENS {
        return Err(format!("there must be 1 to {MAX_TOKENS} tokens"));
    }
    for (index, token) in tokens.iter().enumerate() {
        let earlier = &tokens[..index];
        if earlier.iter().any(|other| other.is_same(token)) {
            return Err(format!("token {} is a duplicate", index + 1));
        }
        if earlier.iter().any(|other| other.name() == token.name()) {
            return Err(format!("two tokens have the name `{}`", token.name()));
        }
    }
    Ok(tokens)
}

/// `token=scope,scope;token=scope`. The tokens are called `token-1`, `token-2` and so on.
fn from_text(text: &str) -> Result<Vec<ApiToken>, String> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    let tokens = parts.enumerate().map(|(index, part)| {
        let number = index + 1;
        // A token may end in the `=` of Base64; a scope has none.
        let (token, list) = part
            .rsplit_once('=')
            .ok_or_else(|| format!("token {number} has no scopes; write token=scope,scope"))?;
        let scopes = scopes(list.split(',')).map_err(|error| format!("token {number}: {error}"))?;
        check(token.trim()).map_err(|error| format!("token {number}: {error}"))?;
        Ok(ApiToken::new(format!("token-{number}"), token.trim(), scopes))
    });
    tokens.collect()
}

/// `{ name = "ci", token = "…", scopes = ["lease:write"] }`, or `sha256` instead of `token`.
fn from_table(value: &Value) -> Result<ApiToken, String> {
    let table = value.as_table().ok_or("must be a table")?;
    if let Some(other) =
        table.keys().find(|key| !["name", "token", "sha256", "scopes"].contains(&key.as_str()))
    {
        return Err(format!("unknown field `{other}`; a token has name, token or sha256, and scopes"));
    }
    let text =
        |key: &str| table.get(key).map(|value| value.as_str().ok_or(format!("`{key}` must be a string")));
    let name = text("name").ok_or("`name` is missing")??;
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        return Err("`name` must have 1 to 64 printable characters".into());
    }
    let list = table.get("scopes").and_then(Value::as_array).ok_or("`scopes` must be a list")?;
    let list: Vec<&str> = list
        .iter()
        .map(|scope| scope.as_str().ok_or("`scopes` must be strings"))
        .collect::<Result<_, _>>()?;
    let scopes = scopes(list)?;
    match (text("token").transpose()?, text("sha256").transpose()?) {
        (Some(token), None) => check(token).map(|()| ApiToken::new(name, token, scopes)),
        (None, Some(hex)) => {
            ApiToken::from_sha256(name, hex, scopes).ok_or("`sha256` must be 64 hex digits".into())
        }
        _ => Err("give either `token` or `sha256`".into()),
    }
}

fn check(token: &str) -> Result<(), String> {
    if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err("the token must be printable ASCII without spaces".into());
    }
    Ok(())
}

fn scopes<'a>(list: impl IntoIterator<Item = &'a str>) -> Result<Scopes, String> {
    let scopes = list.into_iter().map(str::trim).filter(|scope| !scope.is_empty());
    let scopes: Scopes =
        scopes.map(str::parse::<Scope>).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if scopes.is_empty() { Err("`scopes` is empty".into()) } else { Ok(scopes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<Vec<ApiToken>, String> {
        parse(&Value::String(text.into()))
    }

    #[test]
    fn the_variable_names_tokens_and_scopes() {
        let tokens = text("tok1=lease:read,lease:write; dG9rMg===meet:admin;").unwrap();
        assert_eq!(tokens.len(), 2);
        assert_eq!((tokens[0].name(), tokens[0].scopes().to_string()), ("token-1", "lease:write".into()));
        assert!(tokens[1].is_same(&ApiToken::new("x", "dG9rMg==", Scopes::default())));
    }

    #[test]
    fn mistakes_are_named_and_tokens_are_not() {
        for (bad, word) in [
            ("hunter2", "token 1 has no scopes"),
            ("a=lease:read;hunter2=leese:read", "token 2: invalid scope `leese:read`"),
            ("hunter2=", "`scopes` is empty"),
            ("=lease:read", "printable"),
            ("hunter2=lease:read;hunter2=meet:read", "duplicate"),
            (" ; ", "1 to"),
        ] {
            let error = text(bad).unwrap_err();
            assert!(error.contains(word), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn the_file_may_name_tokens_and_keep_digests() {
        let table = |toml: &str| parse(&toml::from_str::<toml::Table>(toml).unwrap()["t"]);
        let hex = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let tokens = table(&format!("[[t]]\nname='ci'\nsha256='{hex}'\nscopes=['lease:read']")).unwrap();
        assert!(tokens[0].is_same(&ApiToken::new("x", "hello", Scopes::default())));
        for (bad, word) in [
            ("[[t]]\ntoken='a'\nscopes=['lease:read']", "`name` is missing"),
            ("[[t]]\nname='a'\nscopes=['lease:read']", "either"),
            ("[[t]]\nname='a'\ntoken='b'\nscopes=[]", "`scopes` is empty"),
            ("[[t]]\nname='a'\ntoken='b'\nscope=['lease:read']", "unknown field `scope`"),
            ("[[t]]\nname='a'\nsha256='b'\nscopes=['lease:read']", "64 hex"),
            (
                "[[t]]\nname='a'\ntoken='b'\nscopes=['lease:read']\n[[t]]\nname='a'\ntoken='c'\nscopes=['lease:read']",
                "the name `a`",
            ),
        ] {
            let error = table(bad).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
