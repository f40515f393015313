package chaos

const childEnv = "HERDGATE_CHAOS_CHILD"

func child(string) error { return nil }
