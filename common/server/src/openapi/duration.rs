//! The text form of durations as a regular expression, with their limits.

/// The pattern of durations of at most so many seconds; 0 for no limit.
pub(super) fn pattern(max_seconds: u32, may_be_negative: bool) -> String {
    let sign = if may_be_negative { "-?" } else { "" };
    match max_seconds {
        0 => format!("^{sign}[0-9]{{1,12}}(\\.[0-9]{{1,9}})?s$"),
        max => format!("^{sign}(({})(\\.[0-9]{{1,9}})?|{max}(\\.0{{1,9}})?)s$", at_most(max - 1)),
    }
}

/// The pattern of the numbers from 0 to `max`, without leading zeros.
fn at_most(max: u32) -> String {
    let digits: Vec<u32> = max.to_string().chars().filter_map(|digit| digit.to_digit(10)).collect();
    let mut ways = vec![];
    if digits.len() > 1 {
        ways.push("[0-9]".to_owned());
    }
    // Shorter numbers.
    ways.extend((1..digits.len().saturating_sub(1)).map(|rest| format!("[1-9]{}", any(rest))));
    let mut prefix = String::new();
    // Numbers of the same length that are smaller at one digit.
    for (place, digit) in digits.iter().enumerate() {
        let least = u32::from(place == 0 && digits.len() > 1);
        if *digit > least {
            let here = if digit - 1 == least { least.to_string() } else { format!("[{least}-{}]", digit - 1) };
            ways.push(format!("{prefix}{here}{}", any(digits.len() - place - 1)));
        }
        prefix.push_str(&digit.to_string());
    }
    ways.push(prefix);
    ways.join("|")
}

fn any(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "[0-9]".to_owned(),
        count => format!("[0-9]{{{count}}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_one_for_every_digit() {
        assert_eq!(at_most(0), "0");
        assert_eq!(at_most(7), "[0-6]|7");
        assert_eq!(at_most(10), "[0-9]|10");
        assert_eq!(at_most(269), "[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-5][0-9]|26[0-8]|269");
        assert_eq!(at_most(1999), "[0-9]|[1-9][0-9]|[1-9][0-9]{2}|1[0-8][0-9]{2}|19[0-8][0-9]|199[0-8]|1999");
    }

    #[test]
    fn a_fraction_does_not_exceed_the_limit() {
        assert_eq!(pattern(2, false), "^((0|1)(\\.[0-9]{1,9})?|2(\\.0{1,9})?)s$");
        assert_eq!(pattern(0, true), "^-?[0-9]{1,12}(\\.[0-9]{1,9})?s$");
    }
}
