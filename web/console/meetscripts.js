// The scripts that the page of meetings starts by itself. Its one Trusted Types policy accepts no others.

export const SCRIPTS = { connections: "/meetworker.js", media: "/mediaworker.js", sound: "/audioworklet.js" };

const policy = globalThis.trustedTypes?.createPolicy("meet", {
  createScriptURL(url) {
    if (!Object.values(SCRIPTS).includes(url)) throw new TypeError(`${url} is not a script of this page`);
    return url;
  },
});

/** The address of one of these scripts, as the browser wants it. */
export const scriptUrl = (name) => policy?.createScriptURL(SCRIPTS[name]) ?? SCRIPTS[name];
