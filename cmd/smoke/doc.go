// Command smoke gets a sandbox, uses it and gives it back, and says of each
// step how it went and how long it took.
//
// Without flags it does so in a simulated cluster of its own, on a machine that
// has nothing but this program. With -server, -kubeconfig-json, -kubectl or
// -in-cluster it does the same in a live cluster, so that an operator learns
// whether everything there is as it should be before anything depends on it.
// "smoke explain" says whether network policies close a pod and which of them
// does not, "smoke sim" serves the simulated cluster to other programs, "smoke
// guest" talks to one guest agent.
//
// The rule most often broken: flags, exit codes and the keys of -json are what
// other people's scripts use. Add to them; never rename one.
package main
