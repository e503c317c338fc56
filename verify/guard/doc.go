// Package guard holds the library against those who mean it no good, and against
// what must not get out: secrets in logs and errors, names that look like commands,
// owners that are guessed, keys of others, users with few rights, servers with a
// wrong certificate, and crowds. SECURITY.md says what is promised; its list of
// commands is what these tests give their user.
package guard
