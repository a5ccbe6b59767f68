import ArgumentParser
import CommandOutput

struct Audit: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List changes by operators, and refusals: who, what, when, from where; the newest first."
    )
    @OptionGroup(title: "Server Options") var connection: ServerOptions
    @Option(help: "How many entries, at most 2,000.") var limit = 100

    func run() throws {
        let answer = try connection.call(.GET, "/admin/audit?limit=\(limit)").object
        let entries = answer["entries"] as? [[String: Any]] ?? []
        if connection.json { return try Output.json(entries) }
        let columns = ["time", "who", "from", "action", "what"]
        try Output.table(
            columns.map { $0.uppercased() },
            entries.map { entry in columns.map { entry[$0] as? String ?? "" } })
    }
}
