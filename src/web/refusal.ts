/** What a page says that shows nothing else. */
export interface Sentence {
  status: number;
  words: string;
  link?: { href: string; text: string } | undefined;
}

/** An answer that shows and does nothing, with words for the person. */
export class Refusal extends Error implements Sentence {
  readonly status: number;
  readonly link: Sentence["link"];

  constructor(status: number, words: string, link?: Sentence["link"]) {
    super(words);
    this.status = status;
    this.link = link;
  }

  get words(): string {
    return this.message;
  }
}

/** Equal for a run that is not there and for a link that is not right. */
export function notThere(): Refusal {
  return new Refusal(404, "There is nothing here. Open the run from the link in its thread.");
}
