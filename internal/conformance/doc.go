// Package conformance is the one suite that every adapter passes, on both backends.
//
// A [Case] is data: route options, steps, and what is expected after each: the response, its Cache-Status, the
// outcome, and how often the handler had run. Case.What names the RFC section, the rule of the design
// or the thread in another cache's tracker that it comes from. A fault that is found becomes a row here first.
//
// A [Host] is one framework with its adapter. What a framework cannot do it declares, with the reason, and the cases that
// need it are not run for it; [Run] lists them. Everything else is the same for all.
//
// The handler behind the cache is one for all frameworks ([Origin]): a test tells it what the next call does and
// holds it where it wants to look around. Nothing waits for a time to pass but what is about time itself, so a
// slow machine makes the suite slow and not red.
//
// After each case, whatever it was about: every complete response was exactly what one call of the handler made, every
// key in Redis has a TTL, no lock is left, no request waits, no flight goes on, and the gate closes.
//
// [Differential] compares hosts with each other, and each host with itself without the gate.
package conformance
