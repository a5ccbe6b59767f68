import Journal
import PostgresEngine

/// A database of a cluster, with the settings of its engines.
struct DatabaseSettings: Sendable {
    var url: String
    var options: PostgresEngine.Options

    var number: Int { options.share.number }

    /// An engine on the database, which need not be reachable at this moment.
    func engine(silence milliseconds: Int? = nil) -> PostgresEngine {
        var options = options
        if let milliseconds { options.silenceMilliseconds = milliseconds }
        return PostgresEngine(lazily: url, options: options)
    }
}
