import ArgumentParser
import CommandOutput
import Foundation
import LoadGenerator

/// The measured server, and how its figures are shown.
struct BenchOptions: ParsableArguments {
    @Option(help: "The server, http://HOST:PORT, without TLS.") var server = "http://127.0.0.1:8787"
    @Option(help: "Where messages are published, if that is another port.") var publishServer: String?
    @Option(help: "tidecast, nchan, nchan-h1, redis, or plain for any other.") var kind = "tidecast"
    @Option(help: "The project.") var project = "bench"
    @Option(help: .hidden) var apiKey: String?
    @Option(help: .hidden) var token: String?
    @Option(help: "The processes whose CPU and memory count, separated by commas.") var pid: String?
    @Option(help: "Seconds to measure for.") var seconds: Double?
    @Flag(help: "Print JSON for programs.") var json = false

    /// Everybody on the machine reads command lines, in the list of processes.
    func validate() throws {
        for (flag, variable, value) in [
            ("--token", BenchOptions.tokenVariable, token), ("--api-key", BenchOptions.keyVariable, apiKey),
        ] where value != nil {
            throw ValidationError(
                "\(flag) would show the key to everybody on this machine, in the list of processes: give it by"
                    + " \(variable).")
        }
    }

    static let tokenVariable = "TIDECAST_TOKEN"
    static let keyVariable = "TIDECAST_API_KEY"
    static let keys =
        "\(tokenVariable) is the backend's bearer token, owner by default, and \(keyVariable) the key that"
        + " devices register with, by default the token."

    func target() throws -> Target {
        raiseOpenFiles()
        guard let kind = Target.Kind(rawValue: kind) else {
            throw ValidationError("--kind is one of \(Target.Kind.allCases.map(\.rawValue))")
        }
        let words = pid?.split(separator: ",") ?? []
        let pids = words.compactMap { Int32($0) }
        guard pids.count == words.count else { throw ValidationError("--pid is a list of numbers") }
        let environment = ProcessInfo.processInfo.environment.filter { !$0.value.isEmpty }
        return Target(
            kind: kind, address: try ServerAddress(server),
            publishAddress: try publishServer.map { try ServerAddress($0) }, project: project,
            deviceKey: environment[BenchOptions.keyVariable],
            token: environment[BenchOptions.tokenVariable] ?? "owner", process: ServerProcess(pids: pids))
    }

    /// Reports the stages of long work to people, on standard error.
    var onStage: @Sendable (LoadReport) -> Void {
        { report in
            let text = "\(report.name): \(report.operations) in \(BenchOptions.text(report.seconds)) s\n"
            Output.note(text)
        }
    }

    func show(_ report: LoadReport) throws {
        if json { return try Output.json(BenchOptions.object(report)) }
        var rows: [[String]] = [
            ["operations", "\(report.operations) (\(report.unit)s)"],
            ["seconds", BenchOptions.text(report.seconds)],
            ["a second", BenchOptions.text(report.perSecond)],
        ]
        if let each = report.microsecondsEach {
            rows.append(["server CPU µs each", BenchOptions.text(each)])
        }
        let own = report.operations > 0 ? report.ownCPUSeconds * 1e6 / Double(report.operations) : 0
        rows.append(["own CPU µs each", BenchOptions.text(own)])
        for (name, histogram) in report.latencies where histogram.count > 0 {
            for (label, fraction) in BenchOptions.percentiles {
                rows.append([
                    "\(name), \(label), ms", BenchOptions.text(Double(histogram.percentile(fraction)) / 1e6),
                ])
            }
            rows.append(["\(name), max, ms", BenchOptions.text(Double(histogram.max) / 1e6)])
        }
        for status in report.statuses.keys.sorted() {
            rows.append(["status \(status)", "\(report.statuses[status] ?? 0)"])
        }
        rows += report.facts.map { [$0.name, BenchOptions.text($0.value)] }
        try Output.table([report.name.uppercased(), ""], rows)
    }

    private static let percentiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)]

    private static func text(_ value: Double) -> String {
        value == value.rounded() ? String(format: "%.0f", value) : String(format: "%.3f", value)
    }

    private static func object(_ report: LoadReport) -> [String: Any] {
        var latencies: [String: Any] = [:]
        for (name, histogram) in report.latencies {
            var one: [String: Any] = ["max": Double(histogram.max) / 1e6, "mean": histogram.mean / 1e6]
            for (label, fraction) in percentiles { one[label] = Double(histogram.percentile(fraction)) / 1e6 }
            latencies[name] = one
        }
        let statuses = report.statuses.map { ("\($0.key)", $0.value) }
        var object: [String: Any] = [
            "name": report.name, "unit": report.unit, "operations": report.operations,
            "seconds": report.seconds, "perSecond": report.perSecond, "ownCPUSeconds": report.ownCPUSeconds,
            "latencyMilliseconds": latencies,
            "statuses": Dictionary(uniqueKeysWithValues: statuses),
            "facts": Dictionary(report.facts.map { ($0.name, $0.value) }) { $1 },
        ]
        object["cpuSeconds"] = report.cpuSeconds
        object["microsecondsEach"] = report.microsecondsEach
        return object
    }
}
