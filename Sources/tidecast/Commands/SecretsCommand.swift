import ArgumentParser
import Catalog
import Node

struct Secrets: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Keys under which the server's own keys are sealed in its database.",
        subcommands: [Key.self])

    struct Key: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a key for --secrets-key-file; without it, what it sealed is lost.")
        @Argument(help: "Where to write it (mode 0600); - is standard output.") var file: String

        func run() throws {
            let output = try SecretOutput(file, replacing: false)
            if try output.keep(try SecretsKeys.make() + (file == "-" ? "" : "\n"), "a secrets key was made") {
                print("a secrets key is in \(file); keep a copy where the database's copies are not")
            }
        }
    }
}
