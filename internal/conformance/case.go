package conformance

import (
	"github.com/herdgate/herdgate/core"
)

// A Case is one row of the suite.
type Case struct {
	ID    string // unique; the name of the subtest
	What  string // where it comes from: an RFC section, a section of the design, a thread of another cache's tracker
	Lists []int  // numbers of the list of other caches' faults that it covers

	Needs   []Capability // the host must be able to do all of these
	Lacks   []Capability // and none of these
	Redis   bool         // on Redis only
	Memory  bool         // on memory only
	Cluster bool         // also on a Redis Cluster

	Gates  int               // processes, each with a server and a gate of its own; 0: 1. More than one is Redis only
	Gate   []core.GateOption // of each gate
	Route  []core.RouteOption
	KeyBy  string   // see App
	SkipIf string   // see App
	Caches int      // 0: 1
	Outer  []string // response headers that middleware outside adds: "Name: value"; {id} is the number of the request, {Name} its header

	Narrow    bool // sockets of servers have small buffers, so that a client who does not read is noticed soon
	Refuses   bool // middleware outside refuses copies of requests that are sent through the application for a refresh
	KeepAlive bool // clients keep their connections
	TLS       bool
	H2        bool // HTTP/2, over TLS
	Pool      int  // connections of the Redis client; 0: as it comes
	Network   bool // there is a network to Redis that can break

	Origin Script // what the handler does, unless a step says otherwise
	Steps  []Step
}

// Want is what is expected of a response. The zero Want expects 200.
type Want struct {
	Status int // 0: 200; -1: any
	Run    int // the run of the handler that made the response; -1: none; 0: any or none
	Body   string
	Header []string // "Name: v1 | v2": the lines; "Name": there; "!Name": not there; "Trailer/Name". {id} is the number of the request
	Cache  string   // parameters of our member of Cache-Status: "hit !stored detail=credentials ttl<60"
	Role   core.Role

	// Of a group of requests:
	Roles    map[core.Role]int // how many of them; roles that are not named may occur
	Distinct bool              // each was made by a run of its own

	Cut   bool  // the client notices that it did not get all
	Infos []int // 1xx statuses
}
