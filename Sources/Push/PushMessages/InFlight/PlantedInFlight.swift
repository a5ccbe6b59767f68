#if DEBUG
    /// Bugs that are planted in the decisions on messages under way to push services to show that a checker
    /// sees them. Only debug builds have them, and only a simulation switches them on.
    public struct PlantedInFlight: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// A message goes again each time that its token is refused.
        public static let againAlways = PlantedInFlight(rawValue: 1)
        /// A message goes again however late.
        public static let againLate = PlantedInFlight(rawValue: 2)
        /// A message whose token is refused goes again with the same token.
        public static let keepRefused = PlantedInFlight(rawValue: 4)
        /// A token that Apple finds changed too often is used on.
        public static let keepChanged = PlantedInFlight(rawValue: 8)
        /// A connection that Apple does not want any more is used on.
        public static let keepConnection = PlantedInFlight(rawValue: 16)
        /// A message without an answer counts as one that did not leave.
        public static let unansweredAsUnsent = PlantedInFlight(rawValue: 32)
        /// A message that did not leave counts as one without an answer.
        public static let unsentAsUnanswered = PlantedInFlight(rawValue: 64)
        /// Each answer with old news counts as the first one.
        public static let forgetOldNews = PlantedInFlight(rawValue: 128)
    }
#endif
