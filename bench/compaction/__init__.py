"""What compactions keep, how long they take, and whether anybody waits for them."""
