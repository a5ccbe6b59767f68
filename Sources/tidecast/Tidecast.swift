import ArgumentParser
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
        let code = exitCode(for: error)
        guard !code.isSuccess else { exit(withError: error) }
        FileHandle.standardError.write(Data("\(fullMessage(for: error))\n".utf8))
        fflush(nil)
        _exit(code.rawValue)
    }
}
