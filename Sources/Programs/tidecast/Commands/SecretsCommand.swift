import ArgumentParser
import Catalog
import CommandOutput

struct Secrets: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make keys that seal the server's own keys in its database.",
        subcommands: [Key.self])

    struct Key: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a key for --secrets-key-file. Nothing else opens what the key has sealed.")
        @Argument(help: "Where to write the key (mode 0600); - is standard output.") var file: String

        func run() throws {
            let output = try SecretOutput(file, replacing: nil)
            if try output.keep(
                try SecretsKeys.make() + (file == "-" ? "" : "\n"), "a secrets key was made",
                ifLost: "make another")
            {
                try Output.line(
                    "the secrets key is in \(file); keep a copy of it apart from the database's copies")
            }
        }
    }
}
