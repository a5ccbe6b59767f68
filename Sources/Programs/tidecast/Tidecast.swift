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
            Listen.self, Cluster.self, Config.self, Version.self, Bench.self,
        ])

    static func main() async {
        keepStandardDescriptors()
        // A write to a pipe without a reader, or past the limit of a file, then fails, and the command says
        // what is lost.
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        var isParsed = false
        do {
            var command = try parseAsRoot()
            isParsed = true
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            await OwnServer.end()
        } catch {
            await OwnServer.end()
            // The parser would show the usage of the whole program.
            if isParsed, let mistake = error as? ValidationError {
                Output.note("Error: \(mistake.message)\n")
                _exit(ExitCode.validationFailure.rawValue)
            }
            if !isParsed { noteMeant() }
            end(error)
        }
    }

    /// A file or a socket that got the number of a closed standard descriptor would receive what is written
    /// there. Writes to what is opened instead fail.
    private static func keepStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            _ = open("/dev/null", O_RDONLY)
        }
    }

    /// Names the command that a mistyped first word may have meant.
    private static func noteMeant() {
        guard let word = CommandLine.arguments.dropFirst().first, !word.hasPrefix("-") else { return }
        let names = configuration.subcommands.map { $0._commandName }
        guard !names.contains(word), let meant = Nearest.of(word, among: names) else { return }
        Output.note("There is no command \(word): did you mean `tidecast \(meant)`?\n")
    }

    /// Prints the error and ends immediately. Threads of a server that did not start may still run, and need
    /// what `exit` would free, libcrypto's tables first.
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
