//! Evaluates arithmetic expressions for the builtin tool `calculator`.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

/// The maximum depth of nested parentheses.
const MAX_DEPTH: usize = 64;

/// The error of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CalculatorError {
    #[error("`{0}` is not expected here; write an expression like `(2 + 3) * 4`")]
    Unexpected(String),
    #[error("the expression ends too early; something is missing after its last part")]
    TooShort,
    #[error("unknown function or constant `{0}`")]
    UnknownName(String),
    #[error("the result is not a number; look for a division by zero or a root of a negative")]
    NotANumber,
    #[error("the expression is nested too deeply")]
    TooDeep,
}

type Result<T, E = CalculatorError> = std::result::Result<T, E>;

/// Evaluates an expression; the error says what it cannot read.
pub(super) fn evaluate(text: &str) -> Result<f64> {
    let mut parser = Parser {
        rest: text.chars().peekable(),
        depth: 0,
    };
    let value = parser.sum()?;
    match parser.peek() {
        Some(unexpected) => Err(CalculatorError::Unexpected(unexpected.to_string())),
        None if value.is_finite() => Ok(value),
        None => Err(CalculatorError::NotANumber),
    }
}

/// Converts a value to JSON, an integral one to an integer.
pub(super) fn to_json(value: f64) -> Value {
    /// The largest range in which every integer is an exact `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is whole and small enough"
        )]
        let whole = value as i64;
        return Value::from(whole);
    }
    Value::from(value)
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        while self.rest.next_if(|c| c.is_whitespace()).is_some() {}
        self.rest.peek().copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        self.peek() == Some(wanted) && self.rest.next().is_some()
    }

    fn sum(&mut self) -> Result<f64> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value += self.product()?;
            } else if self.take('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64> {
        let mut value = self.signed()?;
        loop {
            if self.take('*') {
                value *= self.signed()?;
            } else if self.take('/') {
                value /= self.signed()?;
            } else if self.take('%') {
                value %= self.signed()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn signed(&mut self) -> Result<f64> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CalculatorError::TooDeep);
        }
        let value = if self.take('-') {
            -self.signed()?
        } else if self.take('+') {
            self.signed()?
        } else {
            self.power()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn power(&mut self) -> Result<f64> {
        let base = self.single()?;
        // Right-associative, and before a sign: 2^3^2 is 2^9, -2^2 is -4.
        Ok(if self.take('^') {
            base.powf(self.signed()?)
        } else {
            base
        })
    }

    fn single(&mut self) -> Result<f64> {
        match self.peek() {
            None => Err(CalculatorError::TooShort),
            Some('(') => self.list().and_then(|values| match values.as_slice() {
                [one] => Ok(*one),
                _ => Err(CalculatorError::Unexpected(",".to_owned())),
            }),
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.named(),
            Some(c) => Err(CalculatorError::Unexpected(c.to_string())),
        }
    }

    fn number(&mut self) -> Result<f64> {
        let mut text = String::new();
        while let Some(c) = self
            .rest
            .next_if(|c| c.is_ascii_digit() || matches!(c, '.' | '_'))
        {
            text.push(c);
        }
        if self.has_exponent() {
            let mut rest = self.rest.next_if(|c| matches!(c, 'e' | 'E'));
            while let Some(c) = rest {
                text.push(c);
                let may_be_signed = matches!(c, 'e' | 'E');
                rest = self
                    .rest
                    .next_if(|c| c.is_ascii_digit() || (may_be_signed && matches!(c, '+' | '-')));
            }
        }
        let digits = text.replace('_', "");
        digits
            .parse()
            .map_err(|_| CalculatorError::Unexpected(text))
    }

    /// Whether an exponent follows, as in `1e3`, and not the constant e.
    fn has_exponent(&self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next_if(|c| matches!(c, 'e' | 'E')).is_some() && {
            ahead.next_if(|c| matches!(c, '+' | '-'));
            ahead.next().is_some_and(|c| c.is_ascii_digit())
        }
    }

    /// Parses values in parentheses.
    fn list(&mut self) -> Result<Vec<f64>> {
        if !self.take('(') {
            let found = self.peek().map_or(CalculatorError::TooShort, |c| {
                CalculatorError::Unexpected(c.to_string())
            });
            return Err(found);
        }
        let mut values = vec![self.sum()?];
        while self.take(',') {
            values.push(self.sum()?);
        }
        if self.take(')') {
            return Ok(values);
        }
        Err(match self.peek() {
            Some(c) => CalculatorError::Unexpected(c.to_string()),
            None => CalculatorError::TooShort,
        })
    }

    fn named(&mut self) -> Result<f64> {
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(char::is_ascii_alphanumeric) {
            name.push(c.to_ascii_lowercase());
        }
        match name.as_str() {
            "pi" => return Ok(std::f64::consts::PI),
            "e" => return Ok(std::f64::consts::E),
            "sqrt" | "abs" | "round" | "floor" | "ceil" | "min" | "max" => {}
            _ => return Err(CalculatorError::UnknownName(name)),
        }
        let values = self.list()?;
        Ok(match (name.as_str(), values.as_slice()) {
            ("min", all) => all.iter().copied().fold(f64::INFINITY, f64::min),
            ("max", all) => all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ("sqrt", [x]) => x.sqrt(),
            ("abs", [x]) => x.abs(),
            ("round", [x]) => x.round(),
            ("floor", [x]) => x.floor(),
            ("ceil", [x]) => x.ceil(),
            _ => return Err(CalculatorError::Unexpected(",".to_owned())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let table = [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("2 ^ 3 ^ 2", 512.0),
            ("-2 ^ 2", -4.0),
            ("10 % 4 - 1", 1.0),
            ("1_000 / 8", 125.0),
            ("max(1, sqrt(16), 3) + min(2, 1)", 5.0),
            ("round(2.5) + floor(-0.5) + ceil(0.1) + abs(-1)", 4.0),
            ("1e3 + 2.5E-1", 1000.25),
            ("1e+2 - 1", 99.0),
            ("2*e", 2.0 * std::f64::consts::E),
            ("2*pi", std::f64::consts::TAU),
        ];
        for (text, value) in table {
            assert_eq!(evaluate(text), Ok(value), "{text}");
        }
        assert_eq!(to_json(4.0).to_string(), "4");
        assert_eq!(to_json(0.5).to_string(), "0.5");
    }

    #[test]
    fn invalid_expressions_are_refused() {
        let deep = "(".repeat(10_000);
        for text in [
            "",
            "1 +",
            "2 2",
            "1 / 0",
            "rm(1)",
            "(1, 2)",
            "sqrt(1, 2)",
            "1..2",
            "2e",
            "1e3e3",
            &deep,
        ] {
            assert!(evaluate(text).is_err(), "{text}");
        }
        assert_eq!(evaluate(&"-".repeat(10_000)), Err(CalculatorError::TooDeep));
    }
}
