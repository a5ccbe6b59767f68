import ArgumentParser
import CommandOutput
import Foundation
import Node

struct Version: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show the version.")
    @Flag(help: "Print JSON for programs.") var json = false

    func run() throws {
        if json { try Output.json(["version": Release.version]) } else { try Output.line(Release.version) }
    }
}

struct Config: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Look at a server's settings and metrics.",
        subcommands: [Check.self, List.self, Metrics.self])

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check a server's settings, as `server` would read them, and start nothing.")
        @OptionGroup var server: Server

        func run() async throws {
            let environment = ProcessInfo.processInfo.environment
            let settings = try await Settings.read(server, environment: environment)
            try server.checkDevelopment(settings.configuration)
            try Node.openCertificates(settings.configuration)
            for name in Settings.strangers(in: environment) {
                let meant = Settings.meant(by: name).map { ": did you mean \($0)?" } ?? ""
                Output.note("\(name) names no setting\(meant)\n")
            }
            try Output.line("the settings are in order")
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List every setting with its flag, variable, key and default, as Markdown.")

        func run() throws {
            try Output.line("| flag | variable | key in the file | default | meaning |")
            try Output.line("| --- | --- | --- | --- | --- |")
            for setting in Setting.all { try Output.line(setting.row) }
        }
    }

    struct Metrics: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List every metric with its type, labels and meaning, as Markdown.")

        func run() throws { for line in Metric.page { try Output.line(line) } }
    }
}
