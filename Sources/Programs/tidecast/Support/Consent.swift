import CommandOutput
import Foundation

/// The operator's consent to an act that cannot be undone.
enum Consent {
    /// Asks on a terminal, on which the operator must type `name`; elsewhere the operator must give `--yes`.
    /// - Throws: `ClientError` if there is no consent.
    static func demand(_ question: String, _ name: String, given: Bool) throws {
        if given { return }
        guard isatty(STDIN_FILENO) == 1 else {
            throw ClientError("\(question) Nothing was done: there is no terminal to ask on, so give --yes")
        }
        Output.note("\(question) Type \(name) to go on: ")
        guard readLine() == name else { throw ClientError("nothing was done") }
    }
}
