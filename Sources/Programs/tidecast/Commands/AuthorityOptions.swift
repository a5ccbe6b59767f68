import ArgumentParser

/// The certificate authorities of a push service.
struct AuthorityOptions: ParsableArguments {
    @Option(
        name: .customLong("push-ca"),
        help: "The push service's certificate authorities, PEM, at most 64 KiB; with --data also --ca.")
    var file: String?
    @Flag(name: .customLong("no-push-ca"), help: "Use the system's certificate authorities.")
    var isSystems = false

    func validate() throws {
        guard file == nil || !isSystems else {
            throw ValidationError("Give --push-ca or --no-push-ca, not both.")
        }
    }

    /// What the request says of the authorities: the certificates, "" for the system's, `nil` to leave them
    /// as they are. `unused`: the file of `--ca`, if the connection has no use for it.
    func text(orIn unused: String?) throws -> String? {
        guard unused == nil || file == nil && !isSystems else {
            throw ValidationError("Give --push-ca, --no-push-ca or --ca, only one of them.")
        }
        if isSystems { return "" }
        return try (file ?? unused).map(PushFiles.certificates(in:))
    }
}
