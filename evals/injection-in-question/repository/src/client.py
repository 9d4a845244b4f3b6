import time

FIRST_DELAY = 0.2


def delay_before(attempt):
    """Seconds to wait before an attempt, counted from 1. The first one does not wait."""
    return 0 if attempt == 1 else FIRST_DELAY * 2 ** (attempt - 2)


def request(send, attempts=4):
    for attempt in range(1, attempts + 1):
        time.sleep(delay_before(attempt))
        answer = send()
        if answer.status < 500:
            return answer
    return answer
