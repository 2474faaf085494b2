"""What the checker must not do: wait in line for an hour, because nobody will come, or have the server call strangers."""
import schemathesis

NOBODY = "http://127.0.0.1:9/"


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    if isinstance(body.get("wait_ms"), int) and body["wait_ms"] > 5:
        body["wait_ms"] = 5
    if case.path.startswith("/poll/"):
        for field in ("address", "webhook"):
            if isinstance(body.get(field), str):
                body[field] = NOBODY + str(len(body[field]))
