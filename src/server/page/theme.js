// Light or dark: the system's preference until the button says otherwise. Runs before the page is painted.
(() => {
  'use strict';
  const name = 'inferno.theme';
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');

  function stored() {
    try {
      const theme = localStorage.getItem(name);
      return theme === 'light' || theme === 'dark' ? theme : null;
    } catch {
      return null;
    }
  }

  const preferred = () => (system.matches ? 'dark' : 'light');
  let chosen = stored();

  function apply() {
    if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
    const button = document.getElementById('theme');
    if (!button) return;
    const other = (chosen ?? preferred()) === 'dark' ? 'light' : 'dark';
    button.title = `Switch to ${other} colours`;
    button.setAttribute('aria-label', button.title);
  }

  function toggle() {
    const other = (chosen ?? preferred()) === 'dark' ? 'light' : 'dark';
    // Back at what the system prefers, the page follows the system again.
    chosen = other === preferred() ? null : other;
    try {
      if (chosen) localStorage.setItem(name, chosen);
      else localStorage.removeItem(name);
    } catch {
      // Without storage it holds until the page is left.
    }
    apply();
  }

  apply();
  system.addEventListener('change', apply);
  addEventListener('storage', (event) => {
    if (event.key !== name) return;
    chosen = stored();
    apply();
  });
  document.addEventListener('DOMContentLoaded', () => {
    document.getElementById('theme').addEventListener('click', toggle);
    apply();
  });
})();
