import Foundation

/// The output of commands: tables for people, one JSON document for programs.
package enum Output {
    package static func json(_ value: Any) throws {
        let data = try JSONSerialization.data(
            withJSONObject: value, options: [.sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed])
        print(String(decoding: data, as: UTF8.self))
    }

    /// Columns as wide as their widest cell; nothing for no rows but the header.
    package static func table(_ header: [String], _ rows: [[String]]) {
        var widths = header.map(\.count)
        for row in rows {
            for (column, cell) in row.enumerated() where column < widths.count {
                widths[column] = max(widths[column], cell.count)
            }
        }
        func line(_ cells: [String]) -> String {
            var text = ""
            for (column, cell) in cells.enumerated() {
                text +=
                    column + 1 == cells.count
                    ? cell : cell.padding(toLength: widths[column] + 2, withPad: " ", startingAt: 0)
            }
            return text
        }
        print(line(header))
        for row in rows { print(line(row)) }
    }
}
