// Runs before the first paint, so that a chosen theme does not flash. Everything else is a module.
try {
  const theme = localStorage.getItem("tenure-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is switched off: follow the system */ }
