import ArgumentParser
import CommandOutput
import Foundation
import Node

@main
struct Tidecast: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tidecast", abstract: "A self-hosted, FCM-compatible topic-messaging server.",
        version: Release.version,
        subcommands: [
            Server.self, Cert.self, Project.self, Key.self, Secrets.self, Audit.self, Device.self, Topic.self,
            Subscribe.self,
            Unsubscribe.self, Send.self,
            Listen.self, Cluster.self, Bench.self,
        ])

    static func main() async {
        // A write to a pipe without a reader then fails, and the command says what is lost.
        signal(SIGPIPE, SIG_IGN)
        do {
            var command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            await OwnServer.end()
        } catch {
            await OwnServer.end()
            end(error)
        }
    }

    /// Prints the error and ends at once. Threads of a server that did not start may still run, and need what
    /// `exit` would free, libcrypto's tables first.
    private static func end(_ error: any Error) -> Never {
        if let failure = error as? OutputFailure { end(failure) }
        let code = exitCode(for: error)
        guard code.isSuccess else {
            let message = fullMessage(for: error)
            if !message.isEmpty { Output.note("\(message)\n") }
            _exit(code.rawValue)
        }
        // A help text, a version, or a script for a shell.
        do { try Output.line(fullMessage(for: error)) } catch {
            if let failure = error as? OutputFailure { end(failure) }
        }
        _exit(0)
    }

    private static func end(_ failure: OutputFailure) -> Never {
        if failure.isQuiet { _exit(OutputFailure.pipeExitCode) }
        Output.note("Error: \(failure)\n")
        _exit(OutputFailure.exitCode)
    }
}
