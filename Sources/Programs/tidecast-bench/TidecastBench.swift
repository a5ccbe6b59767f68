import ArgumentParser

/// Loads that measure a server, and other products for comparison. `tools/bench` runs them all.
@main
struct TidecastBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tidecast-bench", abstract: "Measure a running server.", discussion: BenchOptions.keys,
        subcommands: [
            Send.self, Fanout.self, Topics.self, Subscribe.self, Latency.self, Memory.self, Fill.self,
            Condition.self, Restart.self,
        ])
}
