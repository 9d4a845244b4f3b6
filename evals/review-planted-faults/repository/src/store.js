/** Accounts in memory. Every change is asynchronous, as it will be with a database. */
export class Store {
  #accounts = new Map();

  async get(id) {
    return { ...this.#accounts.get(id) };
  }

  async set(id, account) {
    this.#accounts.set(id, { ...account });
  }

  async update(id, change) {
    this.#accounts.set(id, change({ ...this.#accounts.get(id) }));
  }

  async transaction(change) {
    change(this.#accounts);
  }
}
