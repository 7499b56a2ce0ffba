/** Light or dark: what the system says, until somebody says otherwise here. */
const KEY = 'optisci.theme';

export class Theme {
  isDark = $state(false);

  constructor() {
    const system = window.matchMedia('(prefers-color-scheme: dark)');
    const chosen = localStorage.getItem(KEY);
    this.set(chosen === null ? system.matches : chosen === 'dark');
    system.addEventListener('change', ({ matches }) => {
      if (localStorage.getItem(KEY) === null) this.set(matches);
    });
  }

  toggle() {
    localStorage.setItem(KEY, this.isDark ? 'light' : 'dark');
    this.set(!this.isDark);
  }

  private set(isDark: boolean) {
    this.isDark = isDark;
    document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
  }
}
